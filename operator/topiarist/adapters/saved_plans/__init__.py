"""Plan files of `plan --format json`, which `apply --plan` takes."""
