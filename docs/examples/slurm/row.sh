#!/bin/bash
# A table of experiments, or one row, as a Slurm job; its arguments are the command. Add partition, account and memory.
#SBATCH --gres=gpu:1 --cpus-per-task=12
#SBATCH --time=24:00:00 --signal=TERM@120
#SBATCH --requeue --open-mode=append --output=study.%j.txt

# srun, because --signal reaches its program and not this script; it does not take over sbatch's number of cores
srun --cpus-per-task="$SLURM_CPUS_PER_TASK" "$@"
status=$?
# 130: stopped by the signal. The job goes back into the queue under the same number.
if [ $status = 130 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit $status
