-- migrate:up

CREATE SCHEMA IF NOT EXISTS ibex_core;

CREATE TABLE ibex_core.organizations (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    name text NOT NULL
        CONSTRAINT organizations_name_length CHECK (char_length(name) BETWEEN 1 AND 200),
    version bigint NOT NULL DEFAULT 1
        CONSTRAINT organizations_version_positive CHECK (version >= 1),
    created_at timestamptz NOT NULL DEFAULT now()
);

COMMENT ON COLUMN ibex_core.organizations.version IS
    'Rises with every change of the limits, agents or keys, in the transaction of that change.';

CREATE TABLE ibex_core.agents (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    org_id uuid NOT NULL
        CONSTRAINT agents_organization REFERENCES ibex_core.organizations (id),
    name text NOT NULL
        CONSTRAINT agents_name_length CHECK (char_length(name) BETWEEN 1 AND 200),
    created_at timestamptz NOT NULL DEFAULT now(),
    -- What the composite foreign keys below refer to: an agent together with its organization.
    CONSTRAINT agents_org_id_id UNIQUE (org_id, id)
);

CREATE TABLE ibex_core.api_keys (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    role text NOT NULL,
    org_id uuid
        CONSTRAINT api_keys_organization REFERENCES ibex_core.organizations (id),
    agent_id uuid,
    digest bytea NOT NULL
        CONSTRAINT api_keys_digest_is_sha256 CHECK (octet_length(digest) = 32)
        CONSTRAINT api_keys_digest_unique UNIQUE,
    prefix text NOT NULL
        CONSTRAINT api_keys_prefix_length CHECK (char_length(prefix) BETWEEN 1 AND 20),
    name text NOT NULL DEFAULT ''
        CONSTRAINT api_keys_name_length CHECK (char_length(name) <= 200),
    created_at timestamptz NOT NULL DEFAULT now(),
    revoked_at timestamptz,
    CONSTRAINT api_keys_agent FOREIGN KEY (org_id, agent_id)
        REFERENCES ibex_core.agents (org_id, id),
    CONSTRAINT api_keys_role_has_its_scope CHECK (
        CASE role
            WHEN 'agent' THEN org_id IS NOT NULL AND agent_id IS NOT NULL
            WHEN 'admin' THEN org_id IS NOT NULL AND agent_id IS NULL
            WHEN 'read_only' THEN org_id IS NOT NULL AND agent_id IS NULL
            WHEN 'platform' THEN org_id IS NULL AND agent_id IS NULL
            ELSE false
        END
    )
);

CREATE INDEX api_keys_of_agent ON ibex_core.api_keys (org_id, agent_id);

CREATE TABLE ibex_core.rate_limit_overrides (
    org_id uuid NOT NULL
        CONSTRAINT rate_limit_overrides_organization REFERENCES ibex_core.organizations (id),
    agent_id uuid,
    requests_per_minute bigint
        CONSTRAINT rate_limit_overrides_requests_range
        CHECK (requests_per_minute BETWEEN 0 AND 9007199254740991),
    tokens_per_month bigint
        CONSTRAINT rate_limit_overrides_tokens_range
        CHECK (tokens_per_month BETWEEN 0 AND 9007199254740991),
    updated_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT rate_limit_overrides_agent FOREIGN KEY (org_id, agent_id)
        REFERENCES ibex_core.agents (org_id, id),
    CONSTRAINT rate_limit_overrides_tokens_are_the_organizations
        CHECK (agent_id IS NULL OR tokens_per_month IS NULL)
);

COMMENT ON TABLE ibex_core.rate_limit_overrides IS
    'One row per organization (agent_id NULL) and per agent. A limit that is NULL is inherited.';

-- UNIQUE (org_id, agent_id) would take any number of rows whose agent_id is NULL.
CREATE UNIQUE INDEX rate_limit_overrides_one_per_organization
    ON ibex_core.rate_limit_overrides (org_id) WHERE agent_id IS NULL;
CREATE UNIQUE INDEX rate_limit_overrides_one_per_agent
    ON ibex_core.rate_limit_overrides (org_id, agent_id) WHERE agent_id IS NOT NULL;

CREATE TABLE ibex_core.rate_limit_changes (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT now(),
    org_id uuid NOT NULL
        CONSTRAINT rate_limit_changes_organization REFERENCES ibex_core.organizations (id),
    agent_id uuid,
    actor text NOT NULL
        CONSTRAINT rate_limit_changes_actor_length CHECK (char_length(actor) BETWEEN 1 AND 300),
    via text NOT NULL
        CONSTRAINT rate_limit_changes_via_known
        CHECK (via IN ('cli', 'graphql', 'rest', 'dashboard')),
    field text NOT NULL
        CONSTRAINT rate_limit_changes_field_known
        CHECK (field IN ('requests_per_minute', 'tokens_per_month')),
    old bigint,
    new bigint,
    CONSTRAINT rate_limit_changes_agent FOREIGN KEY (org_id, agent_id)
        REFERENCES ibex_core.agents (org_id, id),
    CONSTRAINT rate_limit_changes_only_changes CHECK (old IS DISTINCT FROM new)
);

COMMENT ON TABLE ibex_core.rate_limit_changes IS
    'Who changed which limit, when and through what. NULL in old or new: inherited.';

CREATE INDEX rate_limit_changes_of_organization ON ibex_core.rate_limit_changes (org_id, id);

-- migrate:down

-- The schema stays: it holds the table in which migrations are recorded.
DROP TABLE ibex_core.rate_limit_changes;
DROP TABLE ibex_core.rate_limit_overrides;
DROP TABLE ibex_core.api_keys;
DROP TABLE ibex_core.agents;
DROP TABLE ibex_core.organizations;
