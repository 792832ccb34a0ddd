"""Broker: one broker as the operator sees it (spec) and as it sees itself (status).

There is one for every broker id that ever was. It is never deleted, because it holds the number
of the last session, and a session number must never be used twice: producer ids are made of it,
and every in-sync replica is named by it. A broker that is gone for good is `retired`.

The broker writes its status, the operator the spec, nobody else anything. A process is admitted
by the operator's answer to its `status.incarnation`: `spec.admittedIncarnation` and a session one
higher, written together. A process whose incarnation is not the admitted one counts for nothing.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from chiplog_core.ids import (
    NEVER_ADMITTED,
    BrokerId,
    Incarnation,
    PartitionIndex,
    Session,
    StorageUuid,
    TopicId,
)
from chiplog_core.limits import (
    MAX_ADMIN_REQUESTS,
    MAX_DATA_DIRECTORIES,
    MAX_ENDPOINTS,
    MAX_REFETCHES,
)
from chiplog_core.manifest.constraints import Items, Length
from chiplog_core.model.admin import AdminAnswer
from chiplog_core.model.broker_status import BrokerStatus
from chiplog_core.model.listener import Host, ListenerName, Port
from chiplog_core.model.metadata import Uid
from chiplog_core.model.references import ClusterName, ConfigTexts, ObjectName
from chiplog_core.model.resource import Resource
from chiplog_core.naming import api

RackName = Annotated[str, Length(253, minimum=1)]


class BrokerIntent(StrEnum):
    """What the operator has decided to do with a broker."""

    SERVE = "Serve"
    DRAIN = "Drain"
    REMOVE = "Remove"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An address under which clients reach a broker."""

    listener: Annotated[ListenerName, "Name of the listener."]
    host: Annotated[Host, "Host that clients are told."]
    port: Annotated[Port, "Port that clients are told."]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePorts:
    """The node ports of a listener, asked for again when its Services are made again.

    Clients outside Kubernetes have them in their configuration, so they outlive the BrokerCluster.
    """

    listener: Annotated[ListenerName, "Name of the listener, of type nodeport."]
    broker: Annotated[Port | None, "Node port of the broker's own Service."] = None
    bootstrap: Annotated[Port | None, "Node port of the Service where clients begin."] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRemoval:
    """The recorded decision to delete a broker's volume, made before the deletion.

    It is written once every replica that was on the volume is known to be elsewhere. Placement
    reads it, so that nothing is put there between the proof and the deletion.
    """

    claim_name: Annotated[ObjectName, "Name of the PersistentVolumeClaim."]
    claim_uid: Annotated[Uid, "Its metadata.uid: a claim made anew is not deleted."]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefetchOrder:
    """The order to take a replica for damaged and to fetch it anew from its leader.

    It counts in one session and once: whoever was started anew has nothing to do with it.
    """

    run: Annotated[ObjectName, "Application of the Verification's run that proved the damage."]
    topic_id: Annotated[TopicId, "Id of the topic."]
    partition: Annotated[PartitionIndex, "Number of the partition."]
    session: Annotated[Session, "The session of the broker in which it is to do so."]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSpec:
    """What the operator has decided about the broker."""

    cluster: Annotated[ClusterName, "Name of the BrokerCluster."]
    cluster_id: Annotated[
        str,
        "Kafka's id of the cluster. It is kept here so that a BrokerCluster that was deleted "
        "and made again is the same cluster to its clients.",
        Length(64, minimum=1),
    ]
    broker_id: Annotated[BrokerId, "The broker's id, as Kafka clients see it."]
    admitted_incarnation: Annotated[
        Incarnation | None, "The one process that may act for this broker id."
    ] = None
    session: Annotated[
        Session,
        "Number of the admitted process, one higher than the one before; 0 before the first. "
        "Leaders and in-sync replicas are named by broker id and session.",
    ] = NEVER_ADMITTED
    storage_uuids: Annotated[
        tuple[StorageUuid, ...],
        "Ids of the data directories at admission. Another one is another disk: the broker must "
        "then catch up before it is in sync anywhere.",
        Items(MAX_DATA_DIRECTORIES, unique=True),
    ] = ()
    storage_since: Annotated[
        Session,
        "The session since which these data directories have been the broker's. In-sync replicas "
        "named by an older session were on other disks. Set at admission.",
    ] = NEVER_ADMITTED
    intact_since: Annotated[
        Session,
        "The session since which nothing that was acknowledged can be missing from the data "
        "directories. For in-sync replicas named by this session or a later one the disk vouches: "
        "it holds all that they acknowledged. Set at admission.",
    ] = NEVER_ADMITTED
    process_since: Annotated[
        Session,
        "The session in which the admitted process was admitted first. It holds what it held when "
        "an in-sync replica was named by this session or a later one; a process that was started "
        "again has to show what it has. Set at admission.",
    ] = NEVER_ADMITTED
    disk_failed_session: Annotated[
        Session,
        "The last session in which a write or a sync failed on the broker's disk; 0 if there is "
        "none. No later process vouches for what this session held, whatever its disk says.",
    ] = NEVER_ADMITTED
    fenced: Annotated[
        bool,
        "The process of this session is known to be dead or has not renewed its Lease in time. "
        "It is shown to clients as offline and leads nothing.",
    ] = False
    intent: Annotated[
        BrokerIntent,
        "Serve: normal work. Drain: no leaderships and no new replicas. Remove: its replicas "
        "move elsewhere, then it is retired.",
    ]
    retired: Annotated[
        bool, "The broker is gone for good. Its id and its session numbers are not used again."
    ] = False
    claim_removal: Annotated[
        ClaimRemoval | None, "The recorded decision to delete the broker's volume."
    ] = None
    rack: Annotated[
        RackName | None, "Rack of the node the broker runs on, by the cluster's rack.topologyKey."
    ] = None
    endpoints: Annotated[
        tuple[Endpoint, ...],
        "The addresses under which clients reach the broker.",
        Items(MAX_ENDPOINTS, key=("listener",)),
    ] = ()
    node_ports: Annotated[
        tuple[NodePorts, ...],
        "Node ports of the cluster's listeners. A BrokerCluster that was deleted and made again "
        "asks for the same ones.",
        Items(MAX_ENDPOINTS, key=("listener",)),
    ] = ()
    config: Annotated[ConfigTexts, "Broker configuration that takes effect without a restart."] = (
        field(default_factory=dict)
    )
    maps_check: Annotated[
        str | None,
        "Name of the operator's last look at all PartitionMaps. The broker lists them again, "
        "compares them with its disk and answers by status.mapsChecked.",
        Length(64),
    ] = None
    answers: Annotated[
        tuple[AdminAnswer, ...],
        "Answers to status.requests.",
        Items(MAX_ADMIN_REQUESTS, key=("id",)),
    ] = ()
    refetches: Annotated[
        tuple[RefetchOrder, ...],
        "Replicas of this broker that a Verification has proven to be damaged and that it is to "
        "fetch anew. Answered by status.refetches.",
        Items(MAX_REFETCHES, key=("topicId", "partition")),
    ] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker(Resource):
    """One broker of a BrokerCluster. Written by the operator and the broker, not by users.

    Never delete it: it holds the broker's session number.
    """

    KIND = api.BROKER

    spec: BrokerSpec
    status: BrokerStatus = field(default_factory=BrokerStatus)
