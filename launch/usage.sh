# Sourced by the other scripts before they read their arguments. --help prints the comment at the top of a script.
# Another flag is refused as the first argument.
case ${1:-} in
  -h | --help) exec sed -n '2,/^[^#]/{/^#SBATCH/d;/^#/s/^# \{0,1\}//p;}' "$0" ;;
  -*)
    echo "error: '$1' stands where the first argument belongs. Fix: bash $0 --help" >&2
    exit 2
    ;;
esac
