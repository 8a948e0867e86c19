//! Entry points shared by the fuzz targets and the tests that replay their corpus.
