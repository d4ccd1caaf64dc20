"""An agent: a model, a tool, and a person who answers days later or never. Tested in milliseconds, under virtual time."""

import asyncio
from datetime import timedelta

from perdure import Retry, activity, testing, workflow


@activity(retry=Retry(max_attempts=5))
async def ask_model(question: str, facts: list[str]) -> str:  # stands for a call to a language model
    if activity.info().attempt == 1:
        raise ConnectionError("429 too many requests")  # tried again after a second
    return f"answer: {question} → {facts[0]}" if facts else "tool: search"


@activity
async def search(query: str) -> str:
    return f"3 notes on {query!r}"


@activity
async def publish(text: str) -> None:
    print(f"published {text}")


@workflow
async def research(question: str) -> str:
    facts: list[str] = []
    while (thought := await ask_model(question, facts)) == "tool: search":
        facts.append(await search(question))
    try:
        async with asyncio.timeout(timedelta(days=7).total_seconds()):
            approved = await workflow.receive("approve", bool)
    except TimeoutError:
        return "nobody approved it within a week"
    if not approved:
        return "rejected"
    await publish(thought)
    return f"done after {(workflow.now() - workflow.info().started_at).days} days"


async def main() -> None:
    async with testing.environment() as env:
        env.register(research, ask_model, search, publish)
        answered = await env.client.start(research("why do cats purr?"), id="cats")
        ignored = await env.client.start(research("why do dogs bark?"), id="dogs")
        await env.advance(timedelta(days=3))
        await answered.signal("approve", True, signal_id="approval-1")
        print(await answered.result())
        # → published answer: why do cats purr? → 3 notes on 'why do cats purr?'
        # → done after 3 days
        await env.advance(timedelta(days=5))
        print(await ignored.result())  # → nobody approved it within a week


if __name__ == "__main__":
    asyncio.run(main())
