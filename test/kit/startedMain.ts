/** Runs a shell script with one of the package's ways to start programs, and prints its output. */
import { orThrow } from '@tandem-rl/base'
import { liveProcesses } from '@tandem-rl/host'
import { liveSandbox } from '@tandem-rl/tools'

const [kind, script = ''] = process.argv.slice(2)
const command = 'sh'
const args = ['-c', script]

if (kind === 'bubblewrap' || kind === 'unsafe-host') {
  const { stdout, stderr } = orThrow(await liveSandbox({ isolation: kind }).run({ command, args })())
  console.log(stdout.text + stderr.text)
} else if (kind === 'process') {
  await orThrow(await liveProcesses.start({ command, args, onLine: console.log })()).ended
} else {
  const onOutput = (bytes: Uint8Array): void => void process.stdout.write(bytes)
  await orThrow(await liveProcesses.converse({ command, args, onOutput, onErrors: onOutput })()).ended
}
