"""What a gateway knows of organizations, agents and keys: one snapshot, never a mixture."""

from uuid import uuid4

from config_world import AUTHOR, DEFAULTS, World
from waiting import comes_true

from db.api_keys import Role
from db.limits import Override, OverrideChange
from db.rows import AgentConfig, KeyConfig, NewKey, OrganizationConfig
from gateway.config import Snapshot


def stored(version: int, *digests: bytes, rpm: int | None = None) -> OrganizationConfig:
    """An organization with one agent that has these keys."""
    agent_keys = tuple(KeyConfig(f"key {digest!r}", digest, "agent") for digest in digests)
    agents = (AgentConfig("agent", "bot", Override()),)
    return OrganizationConfig("org", version, Override(rpm), agents, agent_keys)


def test_an_older_version_never_replaces_a_newer_one() -> None:
    """Whatever the order in which they were loaded: neither its limits nor its keys come back."""
    newer = Snapshot().with_([stored(2, b"new", rpm=2)], DEFAULTS)

    assert newer.with_([stored(1, b"old", rpm=1)], DEFAULTS) == newer
    assert set(newer.with_([stored(3, b"newest", rpm=3)], DEFAULTS).callers) == {b"newest"}


def test_a_snapshot_is_never_changed() -> None:
    """A request that holds one sees the same callers to its end."""
    before = Snapshot().with_([stored(1, b"a")], DEFAULTS)

    after = before.with_([stored(2, b"b")], DEFAULTS)
    nothing = after.without({"org"})

    assert [set(s.callers) for s in (before, after, nothing)] == [{b"a"}, {b"b"}, set()]
    assert [set(s.organizations) for s in (before, after, nothing)] == [{"org"}, {"org"}, set()]


async def test_limits_are_the_overrides_over_the_defaults(world: World) -> None:
    """Null inherits, also after something was set; 0 is a limit like any other."""
    org_id, agent_id, digest = await world.agent()
    async with world.config() as config:

        async def after(
            org: OverrideChange, agent: OverrideChange
        ) -> tuple[int | None, int | None, int | None, int | None]:
            await world.repository.change_override(org_id, None, org, AUTHOR)
            await world.repository.change_override(org_id, agent_id, agent, AUTHOR)
            version = (await world.repository.versions())[org_id]
            await world.publish(org_id)
            assert await comes_true(
                lambda: config.snapshot.organizations[org_id].version == version
            )
            subject = config.snapshot.callers[digest].subject
            return subject.agent_rpm, subject.org_rpm, subject.global_rpm, subject.ceiling

        assert await after(OverrideChange(), OverrideChange()) == (10, 20, 30, 40)
        assert await after(OverrideChange(2, 4), OverrideChange(1)) == (1, 2, 30, 4)
        assert await after(OverrideChange(0, 0), OverrideChange(0)) == (0, 0, 30, 0)
        assert await after(OverrideChange(None), OverrideChange(None)) == (10, 20, 30, 0)
        assert await after(OverrideChange(7, None), OverrideChange()) == (10, 7, 30, 40)


async def test_a_revoked_key_is_gone_and_nobody_else_is_touched(world: World) -> None:
    """The agent's other key and other organizations stay as they are, to the very object."""
    org_id, agent_id, digest = await world.agent()
    _, _, foreign = await world.agent()
    second = uuid4().bytes + uuid4().bytes
    key = await world.repository.add_key(
        NewKey(Role.AGENT, org_id, agent_id, second, "ibex_agt_Ab3d", "")
    )
    async with world.config() as config:
        before = config.snapshot
        await world.repository.revoke_key(key.id)
        await world.publish(org_id)

        assert await comes_true(lambda: second not in config.snapshot.callers)
        assert set(config.snapshot.callers) == {digest, foreign}
        assert config.snapshot.callers[foreign] is before.callers[foreign]


async def test_an_agent_without_a_key_is_nobody(world: World) -> None:
    """Its organization is known all the same, so that a key that comes later is taken over."""
    org_id = (await world.repository.create_organization("Acme")).id
    await world.repository.create_agent(org_id, "idle")
    async with world.config() as config:
        assert (config.snapshot.callers, set(config.snapshot.organizations)) == ({}, {org_id})

        _, _, digest = await world.agent(org_id)
        await world.publish(org_id)

        assert await comes_true(lambda: digest in config.snapshot.callers)


async def test_operators_keys_are_not_held(world: World) -> None:
    """Traffic needs an agent's key: no other can be mistaken for one."""
    org_id, _, digest = await world.agent()
    for role, org in ((Role.ADMIN, org_id), (Role.READ_ONLY, org_id), (Role.PLATFORM, None)):
        await world.repository.add_key(
            NewKey(role, org, None, uuid4().bytes + uuid4().bytes, "ibex_adm_Ab3d", "")
        )
    async with world.config() as config:
        assert set(config.snapshot.callers) == {digest}
