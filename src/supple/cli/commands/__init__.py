"""The commands of `supple`, a file for each topic. `supple.cli.app` lists them."""
