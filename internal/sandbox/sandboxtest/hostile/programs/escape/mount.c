// Mounts something, in every way that the kernel knows.
// weaken: system-call filter, set user, set group, drop capabilities, drop from the bounding set, no new privileges, landlock
#include <sys/mount.h>
static void escape_mount(void) {
	mkdir("/tmp/m", 0700);
	REFUSED("mount tmpfs", mount("x", "/tmp/m", "tmpfs", 0, ""));
	REFUSED("mount proc", mount("x", "/tmp/m", "proc", 0, ""));
	REFUSED("bind", mount("/", "/tmp/m", 0, MS_BIND | MS_REC, 0));
	REFUSED("remount /usr", mount(0, "/usr", 0, MS_REMOUNT | MS_BIND, 0));
	REFUSED("remount /proc/sys", mount(0, "/proc/sys", 0, MS_REMOUNT | MS_BIND, 0));
	REFUSED("move", mount("/workspace", "/tmp/m", 0, MS_MOVE, 0));
	REFUSED("umount /proc/cmdline", umount2("/proc/cmdline", MNT_DETACH));
	REFUSED("umount /proc", umount2("/proc", MNT_DETACH));
	REFUSED("umount /tmp", umount2("/tmp", MNT_DETACH));
	REFUSED("umount /", umount2("/", MNT_DETACH));
	REFUSED("pivot_root", syscall(SYS_pivot_root, "/tmp", "/tmp/m"));
	REFUSED("open_tree", syscall(SYS_open_tree, AT_FDCWD, "/", 1));
	REFUSED("move_mount", syscall(SYS_move_mount, AT_FDCWD, "/workspace", AT_FDCWD, "/tmp/m", 0));
	REFUSED("fsopen", syscall(SYS_fsopen, "tmpfs", 0));
	REFUSED("fspick", syscall(SYS_fspick, AT_FDCWD, "/", 0));
	REFUSED("fsconfig", syscall(SYS_fsconfig, 0, 6, 0, 0, 0));
	REFUSED("fsmount", syscall(SYS_fsmount, 0, 0, 0));
	REFUSED("mount_setattr", syscall(SYS_mount_setattr, AT_FDCWD, "/usr", 0, 0, 0));
	REFUSED("listmount", syscall(458, 0, 0, 0, 0));
	REFUSED("statmount", syscall(457, 0, 0, 0, 0));
	REFUSED("open_tree_attr", syscall(467, AT_FDCWD, "/", 1, 0, 0));
}
