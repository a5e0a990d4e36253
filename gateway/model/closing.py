"""What is open while a block of `async with` runs."""

from __future__ import annotations

from typing import Self


class Closing:
    """Is closed at the end of its block; by itself there is nothing to close."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of what is held."""
