/**
 * Runs two jobs on a real Ray cluster with `tandem launch`: one that logs steps in verl's format,
 * and one that fails. Argument: the address of its dashboard, such as `http://127.0.0.1:8265`.
 */
import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const [url = 'http://127.0.0.1:8265'] = process.argv.slice(2)
const folder = mkdtempSync(join(tmpdir(), 'ray-'))

/** Runs a job, and returns the exit code of `tandem launch` and what it printed. */
const launch = (entrypoint: string, name: string): Promise<{ readonly code: number; readonly text: string }> =>
  new Promise((resolve) => {
    const args = ['--import', 'tsx', 'src/cli/main.ts', 'launch', '--entrypoint', entrypoint, '--url', url]
    const options = { timeout: 300_000 }
    const child = execFile(process.execPath, [...args, '--out', join(folder, name)], options, (_, out, err) =>
      resolve({ code: child.exitCode ?? 1, text: out + err }),
    )
  })

const LINES =
  'for i in 1 2 3; do echo "(TaskRunner pid=7) step:$i - actor/pg_loss:0.$i - critic/score/mean:np.float64(0.5)"; done'

const [good, bad] = [await launch(LINES, 'good'), await launch('echo last words; exit 3', 'bad')]
const steps = readFileSync(join(folder, 'good', 'metrics.jsonl'), 'utf8')
  .trim()
  .split('\n')
const isRight = good.code === 0 && steps.length === 3 && bad.code === 1 && bad.text.includes('last words')
process.stdout.write(`${isRight ? 'as expected' : `wrong: ${good.text}${bad.text}`}\n${steps.join('\n')}\n`)
rmSync(folder, { recursive: true })
process.exitCode = isRight ? 0 : 1
