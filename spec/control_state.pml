/* The control plane: voters (workers and servers alike), coordinators, and the two-step change of
 * the view. A view is the set of its voters and the term of the coordinator that made it up, so two
 * different views of one epoch can be told apart.
 *
 * Messages are facts that anybody may read at any later moment or never, also when their sender has
 * died: a proposal, a commit. A report or a promise is one step of the voter and the coordinator
 * that gets it. A report that nobody gets changes nothing; a promise does, so there is a step for
 * one to a coordinator that is gone.
 */
#ifndef NV
#define NV 3 /* voters */
#endif
#ifndef NC
#define NC 2 /* coordinators, in the order of their terms */
#endif
#ifndef CHANGES
#define CHANGES 2 /* view changes that coordinators begin, all together */
#endif
#ifndef DEATHS
#define DEATHS 1 /* voters that die */
#endif
#ifndef STRICT
#define STRICT 0 /* 1: the dead are counted, plain majorities */
#endif
#define EVICTED_EXITS 0
#define EVICTED_IS_SILENT 1
#define EVICTED_REPORTS 2
#ifndef EVICTED
#if STRICT
#define EVICTED EVICTED_IS_SILENT
#else
#define EVICTED EVICTED_EXITS
#endif
#endif
#ifndef AT_ONCE
#define AT_ONCE 0 /* 1: coordinators may live at the same time */
#endif
#ifndef SIBLINGS
#define SIBLINGS 0 /* who has no vote: the processes of a contributor but its carrier */
#endif
#ifndef JOINERS
#define JOINERS 0 /* who is in no view at first */
#endif
#ifndef MUTANT
#define MUTANT 0
#endif
#ifndef COUPLED
#define COUPLED 0
#endif

#define VIEWS (CHANGES + 1) /* epochs, from 1 */
#define VOTERS_OF(view) ((view) & (BIT(NV) - 1))
#define MAKE_VIEW(voters, term) ((voters) | ((term) << NV))

/* Voters. */
byte held_epoch[NV];
byte held_view[NV];
byte met_term[NV];
byte promised_term[NV]; /* 0: nothing promised beyond the held view */
byte promised_view[NV]; /* the epoch is always that of the held view + 1 */
byte dead;              /* voters whose exit the launcher saw */
byte silent;            /* voters that are out of the view and answer nobody */

/* Coordinators; coordinator c has term c + 1. */
#define NOT_STARTED 0
#define READING 1
#define READY 2
#define PROPOSING 3
#define GONE 4
byte phase[NC];
byte base_epoch[NC]; /* the newest committed view it has heard of */
byte base_view[NC];
byte reported[NC];
byte heard_term[NC]; /* the promised proposal it has heard of */
byte heard_view[NC];
byte proposal[NC]; /* kept when the coordinator is gone: it may still be on its way */
byte promises[NC];
bit completes[NC]; /* the proposal was another's */
byte changes = CHANGES;
byte deaths = DEATHS;

/* Commits that were sent, by coordinator and epoch. */
byte commits[NC * (VIEWS + 1)];
#define COMMIT_OF(c, e) commits[(c) * (VIEWS + 1) + (e)]

/* What was applied, by epoch, and the living voters that did. */
byte applied[VIEWS + 1];
byte applied_by[VIEWS + 1];

hidden byte i_v, i_n;
hidden byte n_view, n_epoch;
