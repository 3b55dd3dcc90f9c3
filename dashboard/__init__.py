"""The operators' pages. They ask graphql_api.service, and compute nothing of their own."""
