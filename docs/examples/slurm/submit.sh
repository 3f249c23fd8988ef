#!/bin/bash
# Submit a Slurm job for each line of `pacer study run NAME --print`, read from standard input. A job starts when those
# that the comment of its line names (`# after 1, 2`) have ended without an error.
set -e
ids=()
while read -r row; do
  after=""
  for line in $(sed -n 's/,//g; s/.*  # after //p' <<< "$row"); do after+=":${ids[line - 1]}"; done
  eval "set -- $row" # splits it as a shell does, without the comment
  id=$(sbatch --parsable ${after:+"--dependency=afterok$after"} "$(dirname "$0")/row.sh" "$@" < /dev/null)
  ids+=("${id%;*}") # on several clusters it is NUMBER;CLUSTER
  echo "${ids[-1]}: $row"
done
