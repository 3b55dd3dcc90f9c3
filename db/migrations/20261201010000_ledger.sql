-- migrate:up

-- Usage that lasts: copied from the limiter's counters, each value only ever raised. Rows outlive the
-- names they are about, so nothing refers to them.
CREATE TABLE ibex_core.usage_minutes (
    org_id uuid NOT NULL,
    -- The organization's own id where the row counts all of its agents together.
    agent_id uuid NOT NULL,
    minute timestamptz NOT NULL
        CONSTRAINT usage_minutes_whole CHECK (extract(epoch FROM minute)::bigint % 60 = 0),
    requests bigint NOT NULL,
    denied bigint NOT NULL,
    opened bigint NOT NULL,
    tokens bigint NOT NULL,
    estimated bigint NOT NULL,
    PRIMARY KEY (org_id, agent_id, minute)
);

COMMENT ON TABLE ibex_core.usage_minutes IS
    'Requests admitted, denied and forwarded without a decision; tokens settled, and which of them nobody reported.';

-- Old minutes are found by it to be removed; they lie side by side, as they were written.
CREATE INDEX usage_minutes_by_age ON ibex_core.usage_minutes USING brin (minute);

CREATE TABLE ibex_core.usage_months (
    org_id uuid NOT NULL,
    month date NOT NULL CONSTRAINT usage_months_first_day CHECK (extract(day FROM month) = 1),
    tokens bigint NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (org_id, month)
);

CREATE INDEX usage_months_by_age ON ibex_core.usage_months (month, updated_at);

-- migrate:down

DROP TABLE ibex_core.usage_months;
DROP TABLE ibex_core.usage_minutes;
