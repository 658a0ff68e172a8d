"""The functions of expressions: CEL's standard library, cel-go's extensions and Kubernetes' libraries."""
