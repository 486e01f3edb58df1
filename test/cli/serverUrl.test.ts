/** Addresses of servers on the command line. */
import { describe, expect, it } from 'vitest'
import { checkServerUrl } from '../../src/cli/options.js'

describe('checkServerUrl', () => {
  it.each(['ftp://x', 'nope', '', 'localhost:8000', 'redis://x'])('refuses %j, and names the flag', (url) => {
    expect(() => checkServerUrl('--mlflow', url)).toThrow(
      `--mlflow: '${url}' is not a server address such as http://127.0.0.1:8000`,
    )
  })

  it.each(['http://127.0.0.1:8000', 'https://host.example/v1'])('accepts %s', (url) => {
    expect(() => checkServerUrl('--on', url)).not.toThrow()
  })
})
