"""Series: units and values of slices by series and tick, and event time of a lane."""
