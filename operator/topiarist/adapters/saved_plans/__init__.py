"""Plan files of `plan -o json`, which `apply --plan` takes."""
