"""Names of the Kafka topics that Gapwatch writes and reads, besides the topic of traces that it monitors."""

from __future__ import annotations

#: Each step of an alert's life, caused by detectors or people.
ALERTS_TOPIC = "alerts"
#: Requests for judges.
JUDGE_REQUESTS_TOPIC = "judge-requests"
#: Dead-letter queue: records that could not be read.
DEAD_LETTERS_TOPIC = "dead-letters"
#: Answers of judges that run in processes of their own.
SCORED_TOPIC = "scored"
#: What people say of traces; pipelines and pages write it, the run reads it.
FEEDBACK_TOPIC = "feedback"
