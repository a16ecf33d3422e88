"""YAML files read with a bound on everything that a file can make grow.

`composer` puts values together from the events of the parser, within bounds. `node_reader` reads workflow files as
nodes that know their lines; `value_reader` reads scenarios and manifests as plain values with exact numbers."""
