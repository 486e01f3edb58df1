/** Locks between the pages and workers of one origin, in place of `../lock.ts`. */
import type { LockFailure } from '@tandem-rl/base'
import { browser } from '@tandem-rl/base/host'
import * as E from 'fp-ts/lib/Either.js'
import type * as node from '../lock.js'

type Taken = E.Either<LockFailure, { readonly release: () => Promise<void> }>

/** Takes a Web Lock. The browser releases it if the page or worker ends. */
const take = (path: string): Promise<Taken> =>
  new Promise((resolve, reject) => {
    const use = (lock: object | null): Promise<void> => {
      if (lock === null) {
        const reason = 'in use by another tab of this page. Close it, or wait until it has finished'
        resolve(E.left({ _tag: 'LockFailure', where: path, reason }))
        return Promise.resolve()
      }
      return new Promise((release) => {
        resolve(E.right({ release: () => Promise.resolve(release()) }))
      })
    }
    browser.navigator.locks.request(`tandem ${path}`, { ifAvailable: true }, use).catch(reject)
  })

export const liveLocks: typeof node.liveLocks = { take: (path) => () => take(path) }
