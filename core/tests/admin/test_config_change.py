"""A topic's own configuration after an admin client's changes."""

from chiplog_core.admin.config_change import Change, ConfigChange, changed
from chiplog_core.config.effective import TopicConfig


def test_changes_apply_one_after_the_other_to_what_is_in_force() -> None:
    before = TopicConfig({"segment.ms": "7", "retention.ms": "5"}, {"log.cleanup.policy": "delete"})

    after = changed(
        before,
        [
            ConfigChange(Change.SET, "segment.ms", "8"),
            ConfigChange(Change.DELETE, "retention.ms"),
            ConfigChange(Change.DELETE, "max.message.bytes"),
            ConfigChange(Change.APPEND, "cleanup.policy", "compact"),
        ],
    )

    assert after == {"segment.ms": "8", "cleanup.policy": "delete,compact"}
    assert before.own == {"segment.ms": "7", "retention.ms": "5"}
