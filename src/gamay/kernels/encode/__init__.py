"""Bytes of files and messages: bit packing, LZ4, Avro, passes over dictionary ids."""
