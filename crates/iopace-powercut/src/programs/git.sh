# git: `begin`, `work COUNT` in the current folder, or `check`, which reads lines `COUNT FOLDER` and
# answers each with `ok` or with what is wrong. The last commit may be lost: its name is durable
# with the next sync only.
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
case $1 in
begin)
    git init -q -b main . && git config core.fsync all && git config gc.auto 0 &&
        git config maintenance.auto false
    ;;
work)
    for ((number = 1; number <= $2; number++)); do
        echo "$number" >>"file-$((number % 5))"
        git add . && git commit -q -m "commit $number" || exit 1
        echo "$number"
    done
    ;;
check)
    while read -r count folder; do
        if ! said=$(git -C "$folder" fsck --full --strict --no-reflogs --no-dangling 2>&1); then
            echo "fsck: ${said//$'\n'/; }"
            continue
        fi
        found=$(git -C "$folder" rev-list --count HEAD 2>/dev/null || echo 0)
        if ((found < count - 1)); then
            echo "$found commits, $count were made"
        elif ((found > 0)) && ! said=$(git -C "$folder" cat-file -p HEAD: 2>&1); then
            echo "the last commit cannot be read: ${said//$'\n'/; }"
        else
            echo ok
        fi
    done
    ;;
esac
