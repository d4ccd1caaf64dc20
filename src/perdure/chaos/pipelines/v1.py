"""The pipeline as it was first deployed."""

from perdure import workflow
from perdure.chaos.pipelines.steps import Brief, Piece, brought_out, researched


@workflow
async def research(brief: Brief) -> Piece:
    text_id = await researched(brief)
    return await brought_out(brief, text_id)
