"""Reading of tables: file formats, column types, preprocessing."""
