// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * PID 1 of a User Mode Linux that runs one program and powers off. Its root is
 * the host's, read-only, so it brings its own /proc, /run and TUN node.
 *
 *	init=…/init -- PROGRAM [ARGUMENTS]
 *
 * The last line on the console is "exit N"; before it, what the kernel complained
 * of, each line after "kernel: ".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

static void setup(const char *what, int failed)
{
	if (failed && errno != EBUSY)
		printf("init: %s: %s\n", what, strerror(errno));
}

/* Warnings stay off a console that is quiet. */
static void complaints(void)
{
	static const char *const words[] = {
		"WARNING:", "BUG:",  "BUG ",  "Oops", "KASAN", "refcount_t", "unregister_netdevice",
		"leaked",   "UBSAN", "INFO: "
	};
	static char log[1 << 20];
	char *line, *save;
	unsigned int i;

	if (klogctl(3 /* SYSLOG_ACTION_READ_ALL */, log, sizeof(log) - 1) < 0)
		printf("kernel: its log cannot be read: %s\n", strerror(errno));
	for (line = strtok_r(log, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
			if (strstr(line, words[i])) {
				printf("kernel: %s\n", line);
				break;
			}
}

int main(int argc, char **argv)
{
	int status = 0;
	pid_t child;

	setvbuf(stdout, NULL, _IOLBF, 0);
	setup("/proc", mount("proc", "/proc", "proc", 0, NULL));
	setup("/sys", mount("sysfs", "/sys", "sysfs", 0, NULL));
	setup("/run", mount("tmpfs", "/run", "tmpfs", 0, NULL));
	setup("tun", mknod("/run/tun", S_IFCHR | 0600, makedev(10, 200)));
	child = argc > 1 ? fork() : -1;
	if (!child) {
		execv(argv[1], argv + 1);
		printf("init: %s: %s\n", argv[1], strerror(errno));
		_exit(127);
	}
	while (child > 0 && wait(&status) != child)
		;
	complaints();
	printf("exit %d\n", child > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 126);
	fflush(stdout);
	sync();
	reboot(RB_POWER_OFF);
	return 1;
}
