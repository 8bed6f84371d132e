"""site copies pages with the files that they link to, and names every function of an adapter."""

import site_pages as site

PAGE = "[run](../dev) [all](decisions/) [web](https://example.org) [b](b.md#x)\n"
ADAPTER = '"""Adapter."""\n'
HIDDEN = "def allreduce():\n    pass\n"


def test_pages_and_what_they_link_to(make_repo, tmp_path) -> None:
    root = make_repo(
        {
            "docs/a.md": PAGE,
            "docs/b.md": "# x\n",
            "docs/decisions/README.md": "none\n",
            "dev": "#!/bin/sh\n",
            "tests/README.md": "for developers\n",
            "python/byteps/torch/__init__.py": ADAPTER,
            "python/byteps/torch/allreduce.py": HIDDEN,
        }
    )
    folder = tmp_path / "out"
    assert site.make(folder, root) == 4
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert there == {"dev", "docs/a.md", "docs/b.md", "docs/decisions/README.md", "api/torch.md"}
    assert "[all](decisions/README.md)" in (folder / "docs/a.md").read_text()
    api = (folder / "api/torch.md").read_text()
    assert "::: byteps.torch\n" in api
    assert "::: byteps.torch.allreduce.allreduce\n" in api
