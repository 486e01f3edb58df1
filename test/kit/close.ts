/** Comparing floating-point results: the kit's own comparison, under the name that reads well beside `expect`. */
export { requireClose as expectClose, type Tolerance } from '../../src/testing/close.js'
