"""Broker: the operator's decisions about one broker (spec), and the broker's own state (status).

There is one object for every broker id that was ever used. It is never deleted, because it has the
number of the last session, and a session number must never be used twice: producer ids contain it,
and every in-sync replica is identified by it. A broker that is gone for good is `retired`.

Only the broker writes the status, and only the operator writes the spec. A process asks for
admission by writing `status.incarnation`. The operator admits it by writing this incarnation to
`spec.admittedIncarnation`, together with a session number that is one higher. A process whose
incarnation is not the admitted one is ignored.
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
from chiplog_core.model.listener import ListenerName
from chiplog_core.model.listener_configuration import Host, Port
from chiplog_core.model.metadata import Uid
from chiplog_core.model.references import ClusterName, ConfigTexts, ObjectName
from chiplog_core.model.resource import Resource
from chiplog_core.naming import api

RackName = Annotated[str, Length(253, minimum=1)]
NodeName = Annotated[str, Length(253, minimum=1)]


class BrokerIntent(StrEnum):
    """What the operator has decided to do with a broker."""

    SERVE = "Serve"
    DRAIN = "Drain"
    REMOVE = "Remove"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """An address at which clients reach the broker."""

    listener: Annotated[ListenerName, "Name of the listener."]
    host: Annotated[Host, "Host that is advertised to clients."]
    port: Annotated[Port, "Port that is advertised to clients."]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePorts:
    """The node ports of a listener, which are requested again when its Services are created again.

    Clients outside Kubernetes have them in their configuration, so they outlive the BrokerCluster.
    """

    listener: Annotated[ListenerName, "Name of the listener, of type nodeport."]
    broker: Annotated[Port | None, "Node port of the Service that belongs to this broker only."] = (
        None
    )
    bootstrap: Annotated[
        Port | None, "Node port of the bootstrap Service, which all brokers share."
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRemoval:
    """The recorded decision to delete a broker's volume, made before the deletion.

    It is written when every replica that was on the volume is known to be elsewhere. From then on
    no replica is placed on the volume.
    """

    claim_name: Annotated[ObjectName, "Name of the PersistentVolumeClaim to delete."]
    claim_uid: Annotated[
        Uid,
        "metadata.uid of the PersistentVolumeClaim to delete: a claim that was created "
        "again under the same name is not deleted.",
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RefetchOrder:
    """The order to treat a replica as damaged and to fetch it again from its leader.

    It is carried out once, and only in the session that it names: a restarted broker ignores it.
    """

    run: Annotated[
        ObjectName, "Name of the Verification's Spark application that proved the damage."
    ]
    topic_id: Annotated[TopicId, "Kafka's id of the topic whose replica must be fetched again."]
    partition: Annotated[
        PartitionIndex, "Number of the partition whose replica must be fetched again."
    ]
    session: Annotated[
        Session,
        "The broker session for which the order is valid. A broker in another session ignores it.",
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSpec:
    """The operator's decisions about the broker."""

    cluster: Annotated[ClusterName, "Name of the BrokerCluster."]
    cluster_id: Annotated[
        str,
        "Kafka's id of the cluster. It is kept here so that a BrokerCluster that is deleted and "
        "created again is the same cluster for its clients.",
        Length(64, minimum=1),
    ]
    broker_id: Annotated[BrokerId, "The broker's id, as Kafka clients see it."]
    admitted_incarnation: Annotated[
        Incarnation | None,
        "The incarnation (random name) of the only process that may act for this broker id.",
    ] = None
    session: Annotated[
        Session,
        "Number of the session: of the admitted process, raised by one with each "
        "admission; 0 before the first. Leaders and in-sync replicas are identified by "
        "broker id and session.",
    ] = NEVER_ADMITTED
    storage_uuids: Annotated[
        tuple[StorageUuid, ...],
        "Ids of the data directories at admission. A different id means a different disk: the "
        "broker must then catch up before it is in sync for any partition.",
        Items(MAX_DATA_DIRECTORIES, unique=True),
    ] = ()
    storage_since: Annotated[
        Session,
        "The first session in which the broker used these data directories. In-sync replicas of "
        "an older session were on other disks. Set at admission.",
    ] = NEVER_ADMITTED
    intact_since: Annotated[
        Session,
        "The first session since which no acknowledged record can be missing from the data "
        "directories. The disk holds everything that in-sync replicas of this session or a later "
        "one acknowledged. Set at admission.",
    ] = NEVER_ADMITTED
    process_since: Annotated[
        Session,
        "The session in which the admitted process was first admitted. An in-sync replica of this "
        "session or a later one was listed while this process ran, so it still has its records; a "
        "process that started later must report its log first. Set at admission.",
    ] = NEVER_ADMITTED
    disk_failed_session: Annotated[
        Session,
        "The last session in which a write or a sync failed on the broker's disk; 0 if there is "
        "none. What this session held counts as possibly lost, whatever a later process reports.",
    ] = NEVER_ADMITTED
    fenced: Annotated[
        bool,
        "True if the process of the session in spec.session is known to have ended, or "
        "did not renew its Lease in time. Clients see the broker as offline, and it "
        "leads no partition.",
    ] = False
    intent: Annotated[
        BrokerIntent,
        "Serve: the broker works normally. Drain: it leads no partitions and gets no "
        "new replicas. Remove: its replicas move elsewhere, then it is retired.",
    ]
    retired: Annotated[
        bool,
        "True if the broker is gone for good. Its id and its session numbers are not used again.",
    ] = False
    claim_removal: Annotated[
        ClaimRemoval | None, "The recorded decision to delete the broker's volume."
    ] = None
    rack: Annotated[
        RackName | None, "Rack of the node the broker runs on, by the cluster's rack.topologyKey."
    ] = None
    node: Annotated[
        NodeName | None,
        "Node the broker runs on, or ran on last. The replicas of a partition are spread over as "
        "many nodes as possible.",
    ] = None
    endpoints: Annotated[
        tuple[Endpoint, ...],
        "The addresses at which clients reach the broker.",
        Items(MAX_ENDPOINTS, key=("listener",)),
    ] = ()
    node_ports: Annotated[
        tuple[NodePorts, ...],
        "Node ports of the cluster's listeners. A BrokerCluster that is deleted and created again "
        "requests the same ones.",
        Items(MAX_ENDPOINTS, key=("listener",)),
    ] = ()
    config: Annotated[ConfigTexts, "Broker configuration that takes effect without a restart."] = (
        field(default_factory=dict)
    )
    maps_check: Annotated[
        str | None,
        "Id of the operator's last check of all PartitionMaps. The broker lists them again, "
        "compares them with its disk and confirms with status.mapsChecked.",
        Length(64),
    ] = None
    answers: Annotated[
        tuple[AdminAnswer, ...],
        "The operator's answers to the requests in status.requests.",
        Items(MAX_ADMIN_REQUESTS, key=("id",)),
    ] = ()
    refetches: Annotated[
        tuple[RefetchOrder, ...],
        "Replicas of this broker that a Verification has proven to be damaged and that the broker "
        "must fetch again from the leader. Answered in status.refetches.",
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
