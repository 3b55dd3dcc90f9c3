// Runs graphql-http's audit of a GraphQL server: node graphql_audit.cjs NODE_MODULES URL KEY.
// Prints one JSON line per audit: {"id", "name", "status", "reason"}.
"use strict";

const [modules, url, key] = process.argv.slice(2);
const { auditServer } = require(`${modules}/graphql-http`);

function fetchFn(input, init = {}) {
  return fetch(input, { ...init, headers: { ...init.headers, authorization: `Bearer ${key}` } });
}

auditServer({ url, fetchFn }).then((results) => {
  for (const { id, name, status, reason } of results) {
    console.log(JSON.stringify({ id, name, status, reason }));
  }
});
