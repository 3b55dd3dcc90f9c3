"use strict";

const WELCOME = `# Put an operator's key into the headers below.
# It goes with each query, and is not stored.
# Then re-fetch the schema: the round arrow, lower left.

{
  viewer { role organizationId }
  organizations { nodes { id name } }
}
`;

// GraphiQL's history keeps headers, and with them the key: what it remembers ends with the page.
const remembered = new Map();
const storage = {
  getItem: (name) => remembered.get(name) ?? null,
  setItem: (name, value) => remembered.set(name, value),
  removeItem: (name) => remembered.delete(name),
  clear: () => remembered.clear(),
  get length() {
    return remembered.size;
  },
};

ReactDOM.createRoot(document.getElementById("playground")).render(
  React.createElement(GraphiQL, {
    fetcher: GraphiQL.createFetcher({ url: location.pathname }),
    defaultQuery: WELCOME,
    defaultHeaders: '{\n  "Authorization": "Bearer "\n}',
    defaultEditorToolsVisibility: "headers",
    isHeadersEditorEnabled: true,
    shouldPersistHeaders: false,
    storage,
  }),
);
