"""Files of spans: what programs, Collectors and topics wrote, read and assembled to whole traces."""
