"""The pool on a healthy server."""

import pytest

from ebbtide.storage.pool import Database


async def test_a_transaction_commits(database: Database) -> None:
    async with database.transaction() as connection:
        await connection.execute("create table t (n int)")
        await connection.execute("insert into t values ($1)", 7)
    async with database.connection() as connection:
        assert await connection.fetchval("select n from t") == 7


async def test_a_transaction_rolls_back_on_an_exception(database: Database) -> None:
    async with database.transaction() as connection:
        await connection.execute("create table t (n int)")

    async def change_mind() -> None:
        async with database.transaction() as connection:
            await connection.execute("insert into t values (1)")
            raise RuntimeError("changed my mind")

    with pytest.raises(RuntimeError, match="changed my mind"):
        await change_mind()
    async with database.connection() as connection:
        assert await connection.fetchval("select count(*) from t") == 0
