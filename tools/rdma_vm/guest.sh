# shellcheck shell=bash
# In the virtual machine, among the host's files: runs the job, and leaves its output and its exit
# code for the host. The folder /tmp/job is the host's, and everything else can only be read.
cd /tmp/job || exit
ulimit -l unlimited
{
  source ./settings.sh # the host's PATH, REPO and VENV
  export HOME=/tmp PYTHONDONTWRITEBYTECODE=1
  bash "$REPO/tools/rdma_vm/fabric.sh" && cd "$REPO" && bash /tmp/job/command.sh
  echo $? >/tmp/job/code
} >/tmp/job/output 2>&1 </dev/null
