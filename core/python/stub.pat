# Submodules that only tests use are left out of the stub.
.*\.contact_testing:
