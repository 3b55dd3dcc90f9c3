"""How deep a GraphQL document may nest, and how many aliases it may use.

Each fragment is measured once, however often it is spread: fragments that spread one another twice
stand for exponentially many fields, and following every one of them would take as long.
"""

from typing import Any, NamedTuple

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    InlineFragmentNode,
    OperationDefinitionNode,
    SelectionNode,
    SelectionSetNode,
    ValidationContext,
    ValidationRule,
)

MAX_TOKENS = 1_000
MAX_ALIASES = 30
MAX_DEPTH = 16
"""Fields within fields. Tools that read the schema nest 15 deep, the schema itself 7."""


class Extent(NamedTuple):
    """How deep selections nest, and how many aliases they hold."""

    depth: int
    aliases: int


NOTHING = Extent(0, 0)


class QueryLimits(ValidationRule):
    """Refuses a document that is too deep or has too many aliases."""

    def __init__(self, context: ValidationContext) -> None:
        super().__init__(context)
        self._fragments: dict[str, FragmentDefinitionNode] = {}
        self._measured: dict[str, Extent] = {}

    def enter_document(self, node: DocumentNode, *_: Any) -> None:
        """Measure every operation of the document."""
        for definition in node.definitions:
            if isinstance(definition, FragmentDefinitionNode):
                self._fragments[definition.name.value] = definition
        for definition in node.definitions:
            if isinstance(definition, OperationDefinitionNode):
                self._check(definition)

    def _check(self, operation: OperationDefinitionNode) -> None:
        extent = self._extent(operation.selection_set)
        if extent.depth > MAX_DEPTH:
            message = f"The operation nests more than {MAX_DEPTH} fields deep."
            self.report_error(GraphQLError(message, operation))
        if extent.aliases > MAX_ALIASES:
            message = f"The operation has more than {MAX_ALIASES} aliases."
            self.report_error(GraphQLError(message, operation))

    def _extent(self, selections: SelectionSetNode | None) -> Extent:
        if selections is None:
            return NOTHING
        extents = [self._of(selection) for selection in selections.selections]
        return Extent(
            max((extent.depth for extent in extents), default=0),
            sum(extent.aliases for extent in extents),
        )

    def _of(self, selection: SelectionNode) -> Extent:
        if isinstance(selection, FieldNode):
            within = self._extent(selection.selection_set)
            return Extent(within.depth + 1, within.aliases + (selection.alias is not None))
        if isinstance(selection, InlineFragmentNode):
            return self._extent(selection.selection_set)
        assert isinstance(selection, FragmentSpreadNode)
        return self._of_fragment(selection.name.value)

    def _of_fragment(self, name: str) -> Extent:
        """A fragment that does not exist, or spreads itself, is another rule's to refuse."""
        if name in self._fragments and name not in self._measured:
            self._measured[name] = NOTHING
            self._measured[name] = self._extent(self._fragments[name].selection_set)
        return self._measured.get(name, NOTHING)
