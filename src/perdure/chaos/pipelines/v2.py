"""The pipeline as it is deployed over open runs of `v1`: the model looks at its text a second time before a person does.

Runs whose text was drafted and decided on before the deploy keep the old path.
"""

from perdure import workflow
from perdure.chaos.pipelines.steps import Brief, Piece, brought_out, researched, review


@workflow
async def research(brief: Brief) -> Piece:
    text_id = await researched(brief)
    if workflow.version("second look", 0, 1) >= 1:
        text_id = await review(brief.id, text_id)
    return await brought_out(brief, text_id)
