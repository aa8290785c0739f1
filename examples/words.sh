# Counts the values of a column in a CSV file.
#
#   airlock run -l bash -f testdata/sales.csv examples/words.sh
set -euo pipefail
echo "sales by product:"
tail -n +2 sales.csv | cut -d, -f3 | sort | uniq -c | sort -rn
