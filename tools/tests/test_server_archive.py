"""server_archive takes the programs, the library and what was grafted, and nothing of Python."""

import tarfile
import zipfile

import server_archive

FILES = (
    "byteps/__init__.py",
    "byteps/_core.abi3.so",
    "byteps/libbyteps.so",
    "byteps/bin/bps-scheduler",
    "byteps/bin/bps-server",
    "byteps/docs/running.md",
    "byteps/include/byteps/byteps.h",
    "byteps/share/pkgconfig/byteps.pc",
    "byteps_cpp.libs/libhwy-0123.so.1",
)


def test_the_archive_has_the_programs_and_their_libraries(tmp_path) -> None:
    wheel = tmp_path / "byteps_cpp-1.2.3-cp310-abi3-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in FILES:
            archive.writestr(name, f"bytes of {name}")
        archive.writestr("byteps/bin/", "")
        archive.writestr("byteps_cpp-1.2.3.dist-info/METADATA", "Name: x\nVersion: 1.2.3\n")
    target = server_archive.make(wheel, tmp_path)
    top = "byteps-servers-1.2.3-manylinux_2_28_x86_64"
    assert target.name == f"{top}.tar.gz"
    with tarfile.open(target) as archive:
        assert sorted(archive.getnames()) == sorted(
            f"{top}/{name}"
            for name in (
                "LICENSE",
                "README",
                "bin/bps-scheduler",
                "bin/bps-server",
                *(f"lib/{name}" for name in FILES[2:]),
            )
        )
        server = archive.getmember(f"{top}/lib/byteps/bin/bps-server")
        assert server.mode & 0o111
        assert archive.getmember(f"{top}/lib/byteps/docs/running.md").mode == 0o644
        assert archive.extractfile(server).read() == b"bytes of byteps/bin/bps-server"
        link = archive.getmember(f"{top}/bin/bps-server").linkname
        assert link == "../lib/byteps/bin/bps-server"
        readme = archive.extractfile(f"{top}/README").read().decode()
    assert "at least 2.28" in readme
