"""The variables that launchers of other systems set in the processes that they start."""

from __future__ import annotations


def torch(rank: int, size: int, local_size: int, **more: str) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": str(rank % local_size),
        "LOCAL_WORLD_SIZE": str(local_size),
        "GROUP_RANK": str(rank // local_size),
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "29500",
        "TORCHELASTIC_RUN_ID": "none",
        **more,
    }


def mpi(rank: int, size: int, local_rank: int, local_size: int, **more: str) -> dict[str, str]:
    return {
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_SIZE": str(size),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(local_rank),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(local_size),
        "OMPI_MCA_orte_hnp_uri": "70.0;tcp://10.0.0.1,172.17.0.1:49489;tcp6://[fd00::2]:41215",
        "OMPI_MCA_orte_precondition_transports": "dfa7fcb8b0df1268-cf4c20ff9832da30",
        "PMIX_NAMESPACE": "702414849",
        **more,
    }


def slurm(rank: int, node: int, local_rank: int, tasks: str, size: int) -> dict[str, str]:
    return {
        "SLURM_PROCID": str(rank),
        "SLURM_STEP_NUM_TASKS": str(size),
        "SLURM_LOCALID": str(local_rank),
        "SLURM_NODEID": str(node),
        "SLURM_STEP_TASKS_PER_NODE": tasks,
        "SLURM_STEP_NODELIST": "login,gpu-a[07-09,12]",
        "SLURM_JOB_ID": "17",
        "SLURM_STEP_ID": "0",
    }


def kubeflow(node: int, nodes: int, **more: str) -> dict[str, str]:
    return {
        "PET_NNODES": str(nodes),
        "PET_NPROC_PER_NODE": "auto",
        "PET_NODE_RANK": str(node),
        "PET_MASTER_ADDR": "train-node-0-0.train",
        "PET_MASTER_PORT": "29500",
        **more,
    }
