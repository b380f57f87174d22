/* The peer of `selvedge bench allreduce`: the same sum of f32 by MPI_Allreduce, from a private vector to a private vector,
 * fresh (written by its rank before, read after; only the collective is timed) unless `hot` is given.
 *
 *   mpicc -O3 benches/mpi/allreduce.c -o allreduce && mpirun -n 2 ./allreduce BYTES [hot]
 *
 * Rank 0 prints the median in nanoseconds of each of five repeats' medians, as one JSON object. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int ascending(const void *one, const void *other) {
    double difference = *(const double *)one - *(const double *)other;
    return (difference > 0) - (difference < 0);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    size_t bytes = argc > 1 ? strtoull(argv[1], NULL, 10) : 1 << 20, count = bytes / sizeof(float);
    int hot = argc > 2 && strcmp(argv[2], "hot") == 0;
    int batch = bytes <= 4096 ? 64 : 1;
    long samples = (long)(8e7 / ((1000.0 + 2.0 * bytes) * batch));
    samples = samples < 7 ? 7 : samples > 20000 ? 20000 : samples;
    float *own = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64), *sum = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    double *times = malloc(sizeof(double) * samples), medians[5];
    float expected = ranks * (ranks + 1) / 2.0f;
    for (int repeat = 0; repeat < 5; repeat++) {
        for (long sample = -1; sample < samples; sample++) {
            if (!hot || sample < 0)
                for (size_t at = 0; at < count; at++) own[at] = rank + 1.0f;
            MPI_Barrier(MPI_COMM_WORLD);
            double started = MPI_Wtime();
            for (int turn = 0; turn < batch; turn++)
                MPI_Allreduce(own, sum, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
            double elapsed = MPI_Wtime() - started;
            if (sample >= 0) times[sample] = elapsed * 1e9 / batch;
            if (!hot)
                for (size_t at = 0; at < count; at++)
                    if (sum[at] != expected) MPI_Abort(MPI_COMM_WORLD, 1);
        }
        qsort(times, samples, sizeof(double), ascending);
        medians[repeat] = times[samples / 2];
    }
    qsort(medians, 5, sizeof(double), ascending);
    if (rank == 0)
        printf("{\"case\":\"mpi_allreduce\",\"ranks\":%d,\"payload_bytes\":%zu,\"p50_ns\":%.1f}\n", ranks, bytes, medians[2]);
    free(own), free(sum), free(times);
    MPI_Finalize();
    return 0;
}
