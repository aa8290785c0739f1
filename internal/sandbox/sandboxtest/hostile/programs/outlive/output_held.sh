# Leaves somebody who holds its outputs open.
tried "leave"
sleep 300 &
(sleep 300; echo late) &
exec 3>&1 4>&2
setsid sleep 300 &
done_
exit 0
