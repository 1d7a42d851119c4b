"""Names of the Kafka topics that Gapwatch writes and reads besides the one it watches."""

from __future__ import annotations

#: What detectors and people said of alerts.
ALERTS_TOPIC = "alerts"
#: What judges are to answer.
JUDGE_REQUESTS_TOPIC = "judge-requests"
#: Records that could not be read.
DEAD_LETTERS_TOPIC = "dead-letters"
#: What judges in processes of their own answered.
SCORED_TOPIC = "scored"
