"""/v1/uploads: files that are to come with a Job"""

from __future__ import annotations

from typing import Annotated

from aws_lambda_powertools.event_handler.openapi.params import Body
from aws_lambda_powertools.event_handler.router import APIGatewayHttpRouter

from shardmill.api.responses import actor
from shardmill.engine.files import uploads
from shardmill.engine.mill import mill
from shardmill.model.transfers import Upload, UploadRequest

router = APIGatewayHttpRouter()


@router.post("/v1/uploads", tags=["jobs"])
def begin_upload(wanted: Annotated[UploadRequest, Body()]) -> Upload:
    """Where to PUT a file that a JobRequest is to name in its `files`, within fifteen minutes."""
    return uploads.begin(mill(), wanted, actor(router))
