"""Why there are fewer brokers for new replicas than a topic needs, and what can be done."""

from chiplog_core.model.verdicts import brokers_named
from chiplog_core.observed.broker_states import BrokerStates
from chiplog_core.observed.settings import Settings
from chiplog_core.planner.brokers.maintenance import under_maintenance


def why_too_few(settings: Settings, brokers: BrokerStates, available: int) -> str:
    """The end of a message that begins with the number of brokers that are needed, of which so many
    are available. Brokers that run, but are under maintenance, are named: nobody would find out."""
    held = under_maintenance(settings.cluster)
    excluded = sorted(
        broker_id for broker_id in held & brokers.by_id.keys() if brokers.by_id[broker_id].may_lead
    )
    if not excluded:
        fewer = ", or ask for fewer replicas" if available else ""
        return f"ready brokers, but there are {available}: wait for more brokers{fewer}"
    verb, them = ("is", "it") if len(excluded) == 1 else ("are", "them")
    fewer = ", wait for more brokers, or ask for fewer replicas" if available else ""
    return (
        f"ready brokers that take new replicas, but there are {available}, because "
        f"{brokers_named(excluded)} {verb} under maintenance: remove {them} from "
        f"spec.maintenance.brokers of the BrokerCluster{fewer}"
    )
