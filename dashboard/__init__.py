"""The operators' pages. They ask graphql_api.management, and compute nothing of their own."""
