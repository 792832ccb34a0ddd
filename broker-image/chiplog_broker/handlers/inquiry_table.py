"""The inquiries of the operator over HTTP, and their handlers."""

from chiplog_broker.handlers.group_facts import GroupFactsHandler
from chiplog_broker.handlers.group_resets import GroupResets
from chiplog_broker.handlers.group_retention import GroupRetentionHandler
from chiplog_broker.handlers.leaders import Leaders
from chiplog_broker.handlers.loads import Loads
from chiplog_broker.handlers.log_positions import LogPositions
from chiplog_broker.handlers.table import Parts
from chiplog_broker.server.inquiries import Inquiries, Inquiry
from chiplog_core.model.group_exchange import (
    FACTS_PATH,
    POSITIONS_PATH,
    RESET_PATH,
    RETENTION_PATH,
    GroupsRequest,
    PositionsRequest,
    ResetRequest,
    RetentionRequest,
)
from chiplog_core.model.load_exchange import LOADS_PATH, LoadsRequest


def inquiry_table(parts: Parts) -> Inquiries:
    """Make the handlers of the operator's inquiries, by URL path."""
    leaders = Leaders(parts.cluster, parts.replicas)
    facts = GroupFactsHandler(parts.coordinator, parts.cluster, leaders, parts.clock)
    positions = LogPositions(leaders, parts.clock)
    retention = GroupRetentionHandler(parts.coordinator)
    loads = Loads(parts.cluster, parts.replicas, parts.clock)
    resets = GroupResets(parts.coordinator, parts.cluster)
    return {
        FACTS_PATH: Inquiry(GroupsRequest, facts.answer),
        POSITIONS_PATH: Inquiry(PositionsRequest, positions.answer),
        RETENTION_PATH: Inquiry(RetentionRequest, retention.answer),
        LOADS_PATH: Inquiry(LoadsRequest, loads.answer),
        RESET_PATH: Inquiry(ResetRequest, resets.answer),
    }
