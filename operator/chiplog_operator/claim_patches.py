"""Writes one volume claim of a broker."""

import logging
from typing import Any

from chiplog_core.naming import labels
from chiplog_kube import kinds
from chiplog_kube.api import ApiError, Conflict, KubeApi, Manifest, NotFound, Unavailable
from chiplog_kube.manifests import key_of
from chiplog_operator.caches import Caches

logger = logging.getLogger(__name__)


async def patch_claim(
    api: KubeApi, caches: Caches, claim: Manifest, patch: Manifest, event: str, **facts: Any
) -> ApiError | str | None:
    """Patch a volume claim, and log `event` with the facts. Returns None, an empty text to ask for
    another attempt, or the API server's refusal."""
    name = key_of(claim).name
    try:
        patched = await api.patch(
            kinds.VOLUME_CLAIMS, *key_of(claim), patch, field_manager=labels.OPERATOR
        )
    except (Conflict, NotFound, Unavailable):
        return ""
    except ApiError as error:
        return error
    logger.info(event, extra={"object": name, **facts})
    caches[kinds.VOLUME_CLAIMS].put(patched)
    return None
