/** The machine as a page sees it, in place of `../machine.ts`. */
import type * as node from '../machine.js'
import { browser } from './globals.js'
import { machineMemory } from './host.js'

export const liveMachine: typeof node.liveMachine = { memoryBytes: machineMemory }

export const platform: typeof node.platform = () => 'browser'

export const runtimeVersion: typeof node.runtimeVersion = () => browser.navigator.userAgent

/** Browsers do not report the model of the processor. */
export const processorName: typeof node.processorName = () => 'unknown'

/** Browsers do not report the memory of a worker: 0. */
export const residentBytes: typeof node.residentBytes = () => 0

export const commandLine: typeof node.commandLine = () => browser.location.href
