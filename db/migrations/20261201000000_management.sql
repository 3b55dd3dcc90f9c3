-- migrate:up

-- Lists are read in pages, in the order of creation.
CREATE INDEX organizations_by_age ON ibex_core.organizations (created_at, id);
CREATE INDEX agents_by_age ON ibex_core.agents (org_id, created_at, id);
CREATE INDEX api_keys_by_age ON ibex_core.api_keys (org_id, created_at, id);

-- Who last changed the limits of an agent, or of the organization itself.
CREATE INDEX rate_limit_changes_of_target
    ON ibex_core.rate_limit_changes (COALESCE(agent_id, org_id), id);

-- migrate:down

DROP INDEX ibex_core.rate_limit_changes_of_target;
DROP INDEX ibex_core.api_keys_by_age;
DROP INDEX ibex_core.agents_by_age;
DROP INDEX ibex_core.organizations_by_age;
