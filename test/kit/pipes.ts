import { execFileSync } from 'node:child_process'

/** Makes a named pipe, to which nothing writes. */
export const makePipe = (place: string): void => {
  execFileSync('/bin/sh', ['-c', 'mkfifo "$0"', place])
}
