/**
 * Runs the tests that are the same on every backend on one of them: `npm run verify -- backend
 * wasm [filter...]`.
 *
 * Fails if a test fails that is not known to fail on that backend, or if one does not fail that is
 * known to.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, relative, resolve } from 'node:path'
import { BACKENDS, isBackendName } from '@tandem-rl/tfjs-onnxruntime'
import { KNOWN_BAD, type KnownBad } from '../../test/backends/knownBad.js'

const PARTS = ['modules', 'objectives', 'collectors', 'envs', 'data', 'testing', 'docs'].map((part) => `test/${part}/`)

/** The used part of vitest's JSON report. */
interface Report {
  readonly testResults: readonly {
    readonly name: string
    readonly status: 'passed' | 'failed'
    readonly message: string
    readonly assertionResults: readonly { readonly fullName: string; readonly status: string }[]
  }[]
}

const [backend = '', ...filters] = process.argv.slice(2)
if (!isBackendName(backend)) {
  console.error(`usage: npm run verify -- backend ${BACKENDS.join('|')} [part of a file name...]`)
  process.exit(1)
}

/** The report of a run. Its own output goes to the terminal. */
const runTests = (): Report => {
  const folder = mkdtempSync(join(tmpdir(), 'test-backend-'))
  const file = join(folder, 'report.json')
  const vitest = resolve('node_modules/vitest/vitest.mjs')
  try {
    spawnSync(
      process.execPath,
      [
        vitest,
        'run',
        '--reporter=default',
        '--reporter=json',
        `--outputFile.json=${file}`,
        '--typecheck.enabled=false',
      ].concat(filters.length > 0 ? filters : PARTS),
      { stdio: 'inherit', env: { ...process.env, TANDEM_BACKEND: backend } },
    )
    return JSON.parse(readFileSync(file, 'utf8')) as Report // written by vitest
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

const { testResults } = runTests()
const results = testResults.flatMap(({ name, status, message, assertionResults }) => {
  const file = relative('test', name)
  const broken = assertionResults.length === 0 && status === 'failed'
  return broken
    ? [{ file, test: `could not be run: ${message.split('\n')[0]}`, status: 'failed' }]
    : assertionResults.map((result) => ({ file, test: result.fullName, status: result.status }))
})

const isSame = (a: Omit<KnownBad, 'reason'>, b: Omit<KnownBad, 'reason'>): boolean =>
  a.file === b.file && a.test === b.test
const known = KNOWN_BAD[backend].filter((bad) => results.some((result) => isSame(result, bad)))
const failed = results.filter(({ status }) => status === 'failed')
const unexpected = failed.filter((result) => !known.some((bad) => isSame(result, bad)))
const mended = known.filter((bad) => !failed.some((result) => isSame(result, bad)))

const report = (title: string, lines: readonly string[]): void => {
  if (lines.length > 0) console.log(`\n${title}\n${lines.map((line) => `  ${line}`).join('\n')}`)
}
report(
  `known to fail on ${backend}:`,
  known.map(({ file, test, reason }) => `${file}: ${test}\n    ${reason}`),
)
report(
  'not known to fail:',
  unexpected.map(({ file, test }) => `${file}: ${test}`),
)
report(
  'known to fail, and passed (take it off the list):',
  mended.map(({ file, test }) => `${file}: ${test}`),
)
const passed = results.filter(({ status }) => status === 'passed').length
console.log(
  `\n${backend}: ${passed} passed, ${known.length - mended.length} known to fail, ${unexpected.length} unexpected failures, ` +
    `${results.length - passed - failed.length} skipped`,
)
if (results.length === 0 || unexpected.length > 0 || mended.length > 0) process.exitCode = 1
